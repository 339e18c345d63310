// Package wrap makes a Reader of an MCP server, and shows a Controller's host the same
// tools with typed results.
//
// A file ([File]) has the tools as somebody looked at them: name, description and schema,
// pinned by their hash, the spec of the answer, and how the answer is taken out of a
// result. Of what the server says, nothing else is used: what it says of itself later is
// refused, and of its results go the fields that the spec has, through the gateway.
//
//	upstream, err := wrap.Start(ctx, file.Server, …)
//	reader.OnQuery(wrap.NewReader(file, upstream, logger).Answer)
package wrap
