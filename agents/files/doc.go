// Package files has the tools files_list, files_search and files_read, by
// which a model reads text files in folders that a definition names.
//
// A model names a file by its number in the list, never by a path. Names and
// contents are untrusted: a whole result is one text with source file, in
// which each name is quoted, on one line.
package files
