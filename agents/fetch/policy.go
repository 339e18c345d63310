package fetch

import "github.com/bcpmesh/bcpmesh/bcp/guard"

// Policy returns the policy of an agent's network, narrowed by [guard.AllowVariable] if it is set, as lookup (os.LookupEnv) has it
// at the moment of each call.
func Policy(network []string, lookup func(key string) (string, bool)) func() guard.Policy {
	allowed, _ := guard.ParsePolicy(network)
	return func() guard.Policy {
		value, set := lookup(guard.AllowVariable)
		if !set {
			return allowed
		}
		narrow, _ := guard.ParsePolicy(guard.SplitHosts(value))
		return allowed.Narrow(narrow)
	}
}
