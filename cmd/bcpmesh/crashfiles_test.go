package main_test

import "fmt"

// crashFiles are the definitions of the mesh that the tests of faults work on.
var crashFiles = crashFilesOf(0)

// crashFilesOf are the definitions of the same on a shard.
func crashFilesOf(shard int) map[string]string {
	files := map[string]string{}
	for _, name := range []string{"main", "boss"} {
		files[onShard(name, shard)+".md"] = crashController(name, shard)
	}
	for _, name := range []string{"mailer", "clerk"} {
		files[onShard(name, shard)+".md"] = crashReader(name, shard)
	}
	return files
}

// OnShard is the name of the agent of a shard that is called name on shard 0.
func onShard[T ~string](name T, shard int) T {
	if shard == 0 {
		return name
	}
	return name + T(fmt.Sprint("-", shard))
}

func crashController(name string, shard int) string {
	text := crashHead(name, shard) + "bcp_channels:\n"
	for _, peer := range []string{"clerk", "mailer"} {
		text += "  - {peer: " + onShard(peer, shard) + ", role: controller, max_category: 3, budget_bits: 1000000, subscriptions: [" +
			"{id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}, {id: digest, category: 3, directive: Sum it up., max_words: 10}]}\n"
	}
	return text + "---\n"
}

func crashReader(name string, shard int) string {
	return crashHead(name, shard) + "bcp_channels: [{peer: " + onShard("boss", shard) + ", role: reader}, {peer: " + onShard("main", shard) + ", role: reader}]\n---\n"
}

func crashHead(name string, shard int) string {
	return fmt.Sprintf("---\nname: %s\nshard: %d\n", onShard(name, shard), shard)
}
