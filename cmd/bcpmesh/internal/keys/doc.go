// Package keys has the commands about keys and credentials: accounts, creds,
// join and keys. They write account and user JWTs and push them to servers. No
// command here reads what agents say.
package keys
