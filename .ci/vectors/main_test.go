package main

import "testing"

// Each rule of the cases finds what differs, and nothing where nothing does.
func TestCompare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		suite, line, result string
		differ              bool
	}{
		{"guard", `{"expect":{"allowed":true}}`, `{"allowed":true,"canonical":"x"}`, false},
		{"guard", `{"expect":{"allowed":true}}`, `{"allowed":false}`, true},
		{"guard", `{"expect":{"canonical":"x"}}`, `{"allowed":true}`, true},
		{"guard", `{"expect":{"nano_bits":1}}`, `{"nano_bits":1.0}`, false},
		{"guard", `{"expect":{"nano_bits":9007199254740993}}`, `{"nano_bits":9007199254740992}`, true},
		{"guard", `{"in":{"text":["a",{"repeat":"bc","times":2}]},"expect":{"same":true}}`, `{"text":"abcbc"}`, false},
		{"guard", `{"in":{"text":["a",{"repeat":"bc","times":2}]},"expect":{"same":true}}`, `{"text":"abc"}`, true},
		{"guard", `{"expect":{"text":["a","b"]}}`, `{"text":"ab"}`, false},
		{"guard", `{"expect":{"text":"ab"}}`, `{"text":"ba"}`, true},
		{"guard", `{"op":"redact","expect":{"contains":["b"],"lacks":["c"]}}`, `{"text":"ab","other":"c"}`, false},
		{"guard", `{"op":"redact","expect":{"contains":["b"]}}`, `{"text":"a"}`, true},
		{"guard", `{"op":"redact","expect":{"lacks":["a"]}}`, `{"text":"a"}`, true},
		{"guard", `{"op":"fetch","expect":{"lacks":["c"]}}`, `{"text":"ab","other":["c"]}`, true},
		{"guard", `{"expect":{"length":2}}`, `{"text":"äö"}`, false},
		{"guard", `{"expect":{"length":2}}`, `{"text":"abc"}`, true},
		{"guard", `{"expect":{"tags":2}}`, `{"text":"<untrusted-data>x</ Untrusted-Data>"}`, false},
		{"guard", `{"expect":{"tags":2}}`, `{"text":"<untrusted-data>x"}`, true},
		{"guard", `{"expect":{"prompt":{"two_tags":true,"lacks":["x"]}}}`, `{"prompt":{"two_tags":true,"text":"y"}}`, false},
		{"guard", `{"expect":{"prompt":{"two_tags":true}}}`, `{"prompt":{}}`, true},
		{"guard", `{"expect":{"prompt":{"lacks":["x"]}}}`, `{"prompt":{"text":"x"}}`, true},
		{"guard", `{"op":"fetch","expect":{"steps":[null,{"ok":true}]}}`, `{"steps":[{"ok":false},{"ok":true}]}`, false},
		{"guard", `{"op":"fetch","expect":{"steps":[null,{"ok":true}]}}`, `{"steps":[{"ok":false},{"ok":false}]}`, true},
		{"guard", `{"op":"fetch","expect":{"steps":[null,{"ok":true}]}}`, `{"steps":[]}`, true},
		{"guard", `{"expect":{"allow":[]}}`, `{"allow":null}`, true},

		{"kernel", `{"expect":{"status":"done"}}`, `{"status":"done"}`, false},
		{"kernel", `{"expect":{"status":"done"}}`, `{"status":"blocked"}`, true},
		{"kernel", `{"expect":{"status":"done","status_also":["blocked"]}}`, `{"status":"blocked"}`, false},
		{"kernel", `{"expect":{"status":"done","code_also":["blocked"]}}`, `{"status":"blocked"}`, true},
		{"kernel", `{"expect":{"effects":[],"also_right":[[{"tool":"t"}]]}}`, `{"effects":[{"tool":"t"}]}`, false},
		{"kernel", `{"expect":{"effects":[{"tool":"a"},{"tool":"b"}]}}`, `{"effects":[{"tool":"b"},{"tool":"a"}]}`, true},
		{"kernel", `{"expect":{"trace_ends":["b","c"]}}`, `{"trace":["a","b","c"]}`, false},
		{"kernel", `{"expect":{"trace_ends":["b","c"]}}`, `{"trace":["b","c","a"]}`, true},
		{"kernel", `{"expect":{"trace_ends":["b","c"]}}`, `{"trace":["c"]}`, true},
		{"kernel", `{"expect":{"label":{"sources":["a","b"],"readers":null}}}`, `{"label":{"sources":["b","a"],"readers":null}}`, false},
		{"kernel", `{"expect":{"label":{"sources":["a"],"readers":null}}}`, `{"label":{"sources":["a"],"readers":[]}}`, true},
		{"kernel", `{"expect":{"planner_context_equal_to":"other"}}`, `{"planner_context":"bytes"}`, false},
		{"kernel", `{"expect":{"planner_context_equal_to":"other"}}`, `{"planner_context":"others"}`, true},
		{"kernel", `{"expect":{"planner_context_equal_to":"other"}}`, `{}`, true},
	} {
		var one line
		var result map[string]any
		if err := decode([]byte(c.line), &one); err != nil {
			t.Fatal(err)
		}
		if err := decode([]byte(c.result), &result); err != nil {
			t.Fatal(err)
		}
		compare := map[string]func(line, map[string]any, map[string]map[string]any) []string{"guard": compareGuard, "kernel": compareSimulated}[c.suite]
		got := compare(one, result, map[string]map[string]any{"other": {"planner_context": "bytes"}})
		if len(got) > 0 != c.differ {
			t.Errorf("%s against %s: %q", c.line, c.result, got)
		}
	}
}
