// Package disk reads files safely and writes them whole, and does not know their contents.
//
// Reading opens regular files and folders alone: those below one [Folder], and by
// [ReadFile] one file of a bounded size. An attacker may change the folder while it
// is read. No name, ".." or symbolic link leads out of it (os.Root), however fast it
// is swapped, and reading never waits for a FIFO, device or socket. A hard link cannot
// be distinguished from a file.
//
// Writing is atomic and durable. After a crash a file has its old content, or does not
// exist, or has its new content whole; once a call has returned without an error, the
// new content is on disk. Only this package writes such files. A draft is written in
// the same folder, synced, and renamed; then the folder is synced. A crash can leave
// drafts, whose names begin with [DraftPrefix]. All functions may be called
// concurrently, also by several processes; the last to replace a file wins.
package disk
