// Package feed reads RSS, Atom and JSON feeds for a model. A [web.Fetcher]
// fetches them, and decides, prices and records each request.
package feed
