// Package store knows what one version of nats-server has on the disk and says in its
// log, which nothing else in this tree does: the layout of its blocks, indexes and
// descriptions, what it removes when it cannot open a stream, and its sentences about
// streams and clients. Package server calls it around each opening of the streams. It
// reads and repairs files; it starts nothing, and knows no mesh.
//
// A new version of nats-server fails one test here, TestVersion, which says what to
// compare before [Version] is changed.
package store

// Version is the version of nats-server whose files and sentences are known.
const Version = "2.15.2"
