// Package supervisor runs the commands of agents (PROTOCOL P1.3, P9.2): it
// starts each one, restarts it with backoff when it fails, gives up after too
// many failures in a row, and stops it with everything that it started. It
// handles processes only; messages are decided elsewhere.
//
//	starting ──► running     then, when it ended or was not even started:
//
//	resting      it ended with exit code 0; Wake starts it again
//	waiting      it failed; it is started again at a known time
//	unavailable  it failed too often; after the cooldown Wake starts it again
//
// When it is removed or changed: stopping, then stopped or starting.
//
// [New] makes a supervisor, [Supervisor.Set] sets or changes what it runs, and
// [Supervisor.Stop] ends it.
//
// # What a process gets
//
// An agent reads hostile text, so its command is treated as hostile as far as
// that costs nothing (PROTOCOL P7.5). It gets its argv and never a shell; the
// few environment variables that programs need; none of our open files, no
// input, and no terminal. Its output is an attacker's text: it is cut, limited
// and escaped before it reaches a log.
//
// # What it does not do
//
// A process that runs as our own operating-system user can leave its process
// group on purpose (setsid) and then outlive its agent; see SECURITY.md.
// Memory and processor time are not limited. A command must stay in the
// foreground: when it ends, the rest of its group is killed.
package supervisor
