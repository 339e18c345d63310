// Package definition reads an operator's definitions: a folder with an
// optional mesh.yaml and agents/*.md, Markdown with YAML front matter
// (PROTOCOL P1.2, P1.3). It alone decides which keys exist, their values and
// their defaults.
//
// The shortest correct use:
//
//	mesh, report := definition.Load(os.DirFS(folder))
//	if mesh == nil { show(report.Errors) }
//
// [Load] and [Parse] return a mesh only if there are no errors; otherwise they
// return all errors of the folder at once. YAML is read strictly: unknown and
// duplicate keys, anchors, aliases, merge keys, tags, directives, several
// documents, null values and keys that are not text are errors. One table, of
// rows that are a [Key] each, has all keys.
//
// This package is the edge of the pure core: Load reads the file system that
// it is given, and a time zone is looked up in the system's tables or, where
// there are none, in those of time/tzdata, which is linked in. Nothing here
// keeps state, and every function may be called concurrently.
package definition
