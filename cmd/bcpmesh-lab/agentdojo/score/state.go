package score

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// State is what a suite's tools read and change, as JSON has it.
type State map[string]any

var placeForm = regexp.MustCompile(`\{\w+\}`)

// State is the state before a task, with a text in every place where an injection may stand; "" leaves what is usual.
func (s *Suite) State(planted string) State {
	planted = strings.ToValidUTF8(planted, "\uFFFD")
	fill := func(place string) string {
		usual, known := s.usual[strings.Trim(place, "{}")]
		if !known {
			return place
		}
		return cmp.Or(planted, usual)
	}
	return filled(s.base, fill).(map[string]any)
}

// filled copies a part of a state.
func filled(v any, fill func(place string) string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[key] = filled(inner, fill)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = filled(inner, fill)
		}
		return out
	case string:
		return placeForm.ReplaceAllStringFunc(v, fill)
	default:
		return v
	}
}

// shape names what there was at first as what there is later, and gives elements with an id a place of their own.
func shape(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range v {
			out[strings.TrimPrefix(key, "initial_")] = shape(inner)
		}
		return out
	case []any:
		byID := map[string]any{}
		for i, e := range v {
			v[i] = shape(e)
			of, _ := e.(map[string]any)
			for _, id := range []any{of["id_"], of["id"]} {
				if id != nil {
					byID[fmt.Sprint(id)] = v[i]
				}
			}
		}
		if len(byID) > 0 {
			return byID
		}
	case string:
		if v == "True" || v == "False" { // what Python writes, the library reads as texts
			return v == "True"
		}
	}
	return v
}

// do has the effects of a call, in the language of suites.yaml.
func (w State) do(effects []string, args map[string]any) {
	for _, effect := range effects {
		words := strings.Fields(effect)
		path, known := strings.Split(words[1], "."), true
		value := func(word string) any {
			if name, isArg := strings.CutPrefix(word, "$"); isArg {
				known = known && args[name] != nil
				return args[name]
			}
			var v any
			if json.Unmarshal([]byte(word), &v) != nil {
				return word
			}
			return v
		}
		for i, part := range path {
			if strings.HasPrefix(part, "$") {
				path[i] = fmt.Sprint(value(part))
			}
		}
		var what any
		switch {
		case words[0] == "add":
			fields := map[string]any{}
			for _, field := range words[2:] {
				name, word, _ := strings.Cut(field, "=")
				if v := value(word); v != nil {
					fields[name] = v
				}
				known = true
			}
			if what = fields; len(fields) == 0 {
				what = maps.Clone(args)
			}
		case words[0] != "move" && len(words) > 2:
			what = value(words[2])
		}
		if known {
			each(map[string]any(w), path, func(in map[string]any, key string) { w.change(in, key, words, what) })
		}
	}
}

// each visits a path; * is any key.
func each(node any, path []string, visit func(in map[string]any, key string)) {
	in, isObject := node.(map[string]any)
	switch {
	case !isObject:
	case len(path) == 1:
		visit(in, path[0])
	case path[0] == "*":
		for _, inner := range in {
			each(inner, path[1:], visit)
		}
	default:
		each(in[path[0]], path[1:], visit)
	}
}

// change makes one change at a place.
func (w State) change(in map[string]any, key string, words []string, what any) {
	list, _ := in[key].([]any)
	switch words[0] {
	case "add":
		if of, isObject := in[key].(map[string]any); isObject {
			next := 0
			for id := range of {
				n, _ := strconv.Atoi(id)
				next = max(next, n+1)
			}
			of[strconv.Itoa(next)] = what
			return
		}
		in[key] = append(list, what)
	case "push":
		if more, isList := what.([]any); isList {
			in[key] = append(list, more...)
		} else {
			in[key] = append(list, what)
		}
	case "pull":
		in[key] = slices.DeleteFunc(list, func(e any) bool { return e == what })
	case "put":
		in[key] = what
	case "append":
		in[key] = fmt.Sprintf("%v\n%v", in[key], what)
	case "drop":
		delete(in, key)
	case "move":
		if moved, has := in[key]; has {
			delete(in, key)
			each(map[string]any(w), strings.Split(words[2], "."), func(in map[string]any, to string) {
				of, _ := in[to].(map[string]any)
				if of == nil {
					of = map[string]any{}
					in[to] = of
				}
				of[key] = moved
			})
		}
	}
}

// changes are the paths of what differs, sorted.
func changes(before, after any, path string) []string {
	x, ok1 := before.(map[string]any)
	y, ok2 := after.(map[string]any)
	if !ok1 || !ok2 {
		if reflect.DeepEqual(before, after) {
			return nil
		}
		return []string{path}
	}
	keys := maps.Clone(x)
	maps.Copy(keys, y)
	var paths []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		paths = append(paths, changes(x[key], y[key], strings.TrimPrefix(path+"."+key, "."))...)
	}
	slices.Sort(paths)
	return paths
}

// At returns what stands at a path, or nil.
func (w State) At(path string) any {
	var found any
	each(map[string]any(w), strings.Split(path, "."), func(in map[string]any, key string) { found = in[key] })
	return found
}

// Text writes a part of a state for somebody who reads it.
func Text(v any) string { return string(appendText(nil, v, "")) }

func appendText(b []byte, v any, indent string) []byte {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			b = appendText(append(b, indent+key+": "...), v[key], indent+" ")
		}
		return append(b, '\n')
	case []any:
		for _, e := range v {
			b = appendText(append(b, indent+"- "...), e, indent+" ")
		}
		return append(b, '\n')
	case float64:
		return append(strconv.AppendFloat(b, v, 'f', -1, 64), '\n')
	default:
		return append(fmt.Append(b, v), '\n')
	}
}
