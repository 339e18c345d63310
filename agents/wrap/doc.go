// Package wrap turns an MCP server into a Reader, and offers a Controller's
// host the same tools with typed results.
//
// A [File] lists the reviewed tools: name, description and schema, pinned by
// hash, the spec of the answer, and how the answer is extracted from a result.
// Nothing else from the server is used: changed descriptions are refused, and
// of a result only the fields of the spec go on, through the gateway.
//
//	upstream, err := wrap.Start(ctx, file.Server, …)
//	reader.OnQuery(wrap.NewReader(file, upstream, logger).Answer)
package wrap
