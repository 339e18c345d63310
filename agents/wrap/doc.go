// Package wrap calls tools of foreign MCP servers: for Controllers' hosts, by
// way of a Reader; for kernels ([Server]); and, if an operator named them, for
// the models of Readers ([Desk]).
//
// A [File] makes a Reader of a server, and offers a Controller's host the same
// tools with typed results. It lists the reviewed tools: name, description and
// schema, pinned by hash, the spec of the answer, and how the answer is
// extracted from a result; of a result only the fields of the spec go on,
// through the gateway.
//
//	upstream, err := wrap.Start(ctx, file.Server, …)
//	reader.OnQuery(wrap.NewReader(file, upstream, logger).Answer)
//
// A kernel judges its calls, and their results, itself. [Draft] writes a
// definition for an operator to finish, in which the server's descriptions are
// comments.
//
// Nothing else from a server is used: a tool whose listing has changed since it
// was reviewed is not called.
package wrap
