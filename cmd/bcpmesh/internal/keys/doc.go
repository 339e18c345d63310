// Package keys has the commands of whoever holds the keys of a mesh: accounts,
// creds, join and keys. They write account and user JWTs and tell servers of them.
// No command here reads what agents say.
package keys
