// Package supervisor runs the commands of agents (PROTOCOL P1.3, P9.2): it
// starts each one, starts it again after a back-off when it fails, gives up
// after too many failures in a row, and stops it with everything that it
// started. It knows processes only; what an agent may say is decided elsewhere.
//
//	starting ──► running     then, when it ended or was not even started:
//
//	resting      it ended with exit code 0; Wake starts it again
//	waiting      it failed; it is started again at a known time
//	unavailable  it failed too often; after the cooldown Wake starts it again
//
// and when it was removed or changed: stopping, then stopped or starting.
//
// [New] makes a supervisor, [Supervisor.Set] says what it shall run, which may
// change, and [Supervisor.Stop] ends it.
//
// # What a process gets
//
// An agent reads hostile text, so its command is treated as hostile where that
// costs nothing (PROTOCOL P7.5). It gets the words of its argv, never a shell;
// of our environment only what a program needs to find its way about; no open
// file of ours, no input, and no terminal. What it prints is an attacker's text:
// it is cut, limited and escaped before it reaches a log.
//
// # What it does not do
//
// A process that runs as our own operating-system user can leave its process
// group on purpose (setsid) and then outlives its agent; SECURITY.md draws that
// boundary. Memory and processor time are not limited. A command has to stay in
// the foreground: when it ends, what it left in its group is killed.
package supervisor
