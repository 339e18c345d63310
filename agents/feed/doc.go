// Package feed reads RSS, Atom and JSON feeds for a model. What it reads is fetched by a
// [web.Fetcher], which decides, prices and records each request.
package feed
