package sandbox

// Outcome is what became of an attempt of a program to reach something beyond its sandbox.
type Outcome struct {
	Attempt string `json:"attempt"`
	// Does says what was tried.
	Does    string `json:"does"`
	Reached bool   `json:"reached"`
	// Refusal is what the system said, empty if it was reached.
	Refusal string `json:"refusal,omitempty"`
	// Elsewhere says that some machines refuse it to every program.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Bait is what [Try] tries to reach: harmless things that a program without a sandbox reaches.
type Bait struct {
	Folder   string `json:"folder"`   // with the files secret and program
	TCP      string `json:"tcp"`      // host:port of a listener
	UDP      string `json:"udp"`      // host:port
	Unix     string `json:"unix"`     // path of a stream socket
	Datagram string `json:"datagram"` // path of a datagram socket
	Abstract string `json:"abstract"` // name of an abstract stream socket
	Process  int    `json:"process"`  // of the same user
}
