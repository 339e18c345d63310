package main

// crashFiles are the definitions of the mesh that the tests of faults work on.
var crashFiles = map[string]string{
	"main.md": crashController("main"), "boss.md": crashController("boss"), "mailer.md": crashReader("mailer"), "clerk.md": crashReader("clerk"),
}

func crashController(name string) string {
	text := "---\nname: " + name + "\nbcp_channels:\n"
	for _, peer := range []string{"clerk", "mailer"} {
		text += "  - {peer: " + peer + ", role: controller, max_category: 3, budget_bits: 1000000, subscriptions: [" +
			"{id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}, {id: digest, category: 3, directive: Sum it up., max_words: 10}]}\n"
	}
	return text + "---\n"
}

func crashReader(name string) string {
	return "---\nname: " + name + "\nbcp_channels: [{peer: boss, role: reader}, {peer: main, role: reader}]\n---\n"
}
