package sandbox

// Outcome is the result of a program's attempt to reach something outside its sandbox.
type Outcome struct {
	Attempt string `json:"attempt"`
	// Does describes the attempt.
	Does    string `json:"does"`
	Reached bool   `json:"reached"`
	// Refusal is the system's error, empty if the attempt succeeded.
	Refusal string `json:"refusal,omitempty"`
	// Elsewhere says that some machines refuse this to every program.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Bait are the targets of [Try]: harmless things that a program without a sandbox can
// reach.
type Bait struct {
	Folder   string `json:"folder"`   // with the files secret and program
	TCP      string `json:"tcp"`      // host:port of a listener
	UDP      string `json:"udp"`      // host:port
	Unix     string `json:"unix"`     // path of a stream socket
	Datagram string `json:"datagram"` // path of a datagram socket
	Abstract string `json:"abstract"` // name of an abstract stream socket
	Process  int    `json:"process"`  // of the same user
}
