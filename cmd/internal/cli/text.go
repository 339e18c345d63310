package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// Compact returns the parts that are not empty.
func Compact(parts ...string) []string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return kept
}

// Map is what f makes of each of a list; nil of none.
func Map[T, U any](list []T, f func(T) U) []U {
	var made []U
	for _, one := range list {
		made = append(made, f(one))
	}
	return made
}

// Seconds returns the whole seconds of d.
func Seconds(d time.Duration) int64 { return int64(d / time.Second) }

// Moment writes a time for people.
func Moment(t time.Time) string { return tell.Moment(t) }

// FirstAndCount names the first of a list, and how many more there are.
func FirstAndCount(list []string) string {
	const most = 3
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// ChannelName writes a channel as CONTROLLER/READER.
func ChannelName(controller, reader bcp.AgentName) string { return tell.Channel(controller, reader) }

// UnknownAgent says that a mesh has no such agent, and which one may be meant.
func UnknownAgent[T ~string](name string, known []T) error {
	names := Map(known, func(k T) string { return string(k) })
	f := Failf("the mesh has no agent %s", Quoted(name))
	if near := Suggestion(name, names); near != "" {
		return f.WithHint("did you mean %s?", near)
	}
	if len(names) == 0 {
		return f
	}
	return f.WithHint("it has %s", strings.Join(names, ", "))
}

// FirstNames names the first of many.
func FirstNames(names []string) string {
	const most = 12
	if len(names) == 0 {
		return "nobody"
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Short cuts text for one line of a terminal.
func Short(s string, columns int) string { return text.Snip(s, max(columns, 1), "…") }
