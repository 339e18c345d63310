package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// readableTag is a tag of a fence that a reader of the text would take for one.
var readableTag = regexp.MustCompile(`(?i)<[\s\v\x{a0}\x{3000}\x{2028}\x{feff}]*(/[\s\v\x{a0}\x{3000}\x{2028}\x{feff}]*)?untrusted-data`)

// compareGuard compares by the rules of the guard's cases.
func compareGuard(c line, result map[string]any, _ map[string]map[string]any) (differences []string) {
	differ := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	text, _ := result["text"].(string)
	for _, key := range slices.Sorted(maps.Keys(c.Expect)) {
		want := c.Expect[key]
		switch key {
		case "max_ms":
		case "same":
			if text != joined(c.In["text"]) {
				differ("text %q is changed", text)
			}
		case "contains", "lacks":
			within := text
			if key == "lacks" && c.Op == "fetch" {
				within = allText(result)
			}
			differences = append(differences, searched(key, want, within)...)
		case "length":
			if n := utf8.RuneCountInString(text); !equal(want, json.Number(fmt.Sprint(n))) {
				differ("length %d, want %v", n, want)
			}
		case "tags":
			if n := len(readableTag.FindAllString(text, -1)); !equal(want, json.Number(fmt.Sprint(n))) {
				differ("%d tags, want %v", n, want)
			}
		case "text":
			if text != joined(want) {
				differ("text %q, want %q", text, joined(want))
			}
		case "prompt":
			prompt, _ := result[key].(map[string]any)
			for part, value := range want.(map[string]any) {
				if part == "lacks" {
					within, _ := prompt["text"].(string)
					differences = append(differences, searched(part, value, within)...)
				} else if !equal(value, prompt[part]) {
					differ("prompt.%s %v, want %v", part, prompt[part], value)
				}
			}
		case "steps":
			got, _ := result[key].([]any)
			for i, step := range want.([]any) {
				if step == nil {
					continue
				}
				if i >= len(got) {
					differ("step %d is missing", i)
					continue
				}
				one, _ := got[i].(map[string]any)
				for _, d := range compareGuard(line{Op: c.Op, In: c.In, Expect: step.(map[string]any)}, one, nil) {
					differ("step %d: %s", i, d)
				}
			}
		default:
			if !equal(want, result[key]) {
				differ("%s %v, want %v", key, result[key], want)
			}
		}
	}
	return differences
}

// searched are the texts of a list that are not where they should be, or are where they
// should not.
func searched(key string, list any, within string) (differences []string) {
	for _, part := range list.([]any) {
		if text := joined(part); strings.Contains(within, text) != (key == "contains") {
			differences = append(differences, fmt.Sprintf("%s %q: %q", key, text, within))
		}
	}
	return differences
}

// joined is a text: a string, or a list whose parts are joined, of which some repeat.
func joined(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []any:
		var b strings.Builder
		for _, part := range v {
			b.WriteString(joined(part))
		}
		return b.String()
	case map[string]any:
		times, _ := v["times"].(json.Number)
		n, _ := times.Int64()
		return strings.Repeat(joined(v["repeat"]), int(n))
	}
	return ""
}

// allText is all text of a result.
func allText(value any) string {
	var b strings.Builder
	var walk func(any)
	walk = func(value any) {
		switch v := value.(type) {
		case string:
			b.WriteString(v + "\n")
		case []any:
			for _, part := range v {
				walk(part)
			}
		case map[string]any:
			for key, part := range v {
				b.WriteString(key + "\n")
				walk(part)
			}
		}
	}
	walk(value)
	return b.String()
}

// alternatives are keys that hold what else is right of another key.
var alternatives = map[string]string{"also_right": "effects", "status_also": "status", "code_also": "code"}

// compareSimulated compares by the rules of the cases of kernel and roles. Texts that
// models are given, or never (in_reader, never_in_planner, …), are those that the program
// says it found so.
func compareSimulated(c line, result map[string]any, all map[string]map[string]any) (differences []string) {
	differ := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	for _, key := range slices.Sorted(maps.Keys(c.Expect)) {
		want, got := c.Expect[key], result[key]
		switch {
		case alternatives[key] != "":
		case key == "trace_ends":
			trace, _ := result["trace"].([]any)
			ends := want.([]any)
			if len(trace) < len(ends) || !equal(want, trace[len(trace)-len(ends):]) {
				differ("trace %v does not end with %v", trace, want)
			}
		case key == "planner_context_equal_to":
			other, _ := want.(string)
			if own := result["planner_context"]; own == nil || !equal(own, all[other]["planner_context"]) {
				differ("the planner's context is not that of %s", other)
			}
		case key == "label" || key == "final_label":
			if !equal(unordered(want), unordered(got)) {
				differ("%s %v, want %v", key, got, want)
			}
		case !equal(want, got):
			right := slices.ContainsFunc(slices.Collect(maps.Keys(alternatives)), func(also string) bool {
				others, _ := c.Expect[also].([]any)
				return alternatives[also] == key && slices.ContainsFunc(others, func(other any) bool { return equal(other, got) })
			})
			if !right {
				differ("%s %v, want %v", key, got, want)
			}
		}
	}
	return differences
}

// unordered is a value whose lists are sets: sorted, and each member once.
func unordered(value any) any {
	switch v := value.(type) {
	case []any:
		set := map[string]any{}
		for _, part := range v {
			set[fmt.Sprint(part)] = unordered(part)
		}
		sorted := []any{}
		for _, key := range slices.Sorted(maps.Keys(set)) {
			sorted = append(sorted, set[key])
		}
		return sorted
	case map[string]any:
		one := map[string]any{}
		for key, part := range v {
			one[key] = unordered(part)
		}
		return one
	}
	return value
}

// equal compares JSON by value: 1 is 1.0.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		number, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, first := new(big.Rat).SetString(a.String())
		y, second := new(big.Rat).SetString(number.String())
		return first && second && x.Cmp(y) == 0
	case []any:
		list, ok := b.([]any)
		return ok && slices.EqualFunc(a, list, equal)
	case map[string]any:
		object, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, object, equal)
	}
	return a == b
}
