package accounts

// LittleWork has a store seal with a passphrase that is quick to work out.
func (s *Store) LittleWork() { s.seal.work = 10 }
