// Package files is the tools files_list, files_search and files_read: text files below folders that a definition names, to
// be read by a model.
//
// A model names a file by the number under which it was listed, never by a path. Names and contents came from outside:
// all of a result is one text of source file, in which a name is a quoted text on one line.
package files
