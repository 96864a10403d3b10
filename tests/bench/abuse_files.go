package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	fewFilesLimit = 256
	fewConns      = 500
	fewCPU        = 5 // percent of a core
	fewObserved   = 3 * time.Second
	fewPerSec     = 1_000 // requests of other clients, for which the three nodes need a fraction of the processors
	fewReserved   = 64    // descriptors that clients do not get
	fewFree       = 16    // of them not in use: enough for new connections of two peers, and a snapshot
)

// fewFiles opens more connections than a leader may open files. It measures other clients, the processor time of the leader,
// and the descriptors that are left to it, and checks that it keeps the leadership and the connections to its peers, and that
// a follower can join meanwhile.
func (a *abuser) fewFiles() error {
	limited := slices.Concat(a.wrapper, []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, fewFilesLimit), a.server})
	nodes, err := startGroupUnder(limited, "--raft-fsync", "no")
	if err != nil {
		return err
	}
	return errors.Join(a.fillFiles(nodes), nodes.stop())
}

func (a *abuser) fillFiles(nodes *group) error {
	leader, err := nodes.leader()
	if err != nil {
		return err
	}
	files, err := openFiles(leader.pid())
	if err != nil {
		return err
	}
	l := &fullLeader{a, nodes, leader, &victim{process: &process{cmd: leader.cmd, addr: leader.addr}, perSec: fewPerSec}, files}
	elections, err := nodes.electionsDuring(func() error {
		if err := l.compareOthers(); err != nil {
			return err
		}
		return l.observe()
	})
	if err != nil {
		return err
	}
	a.atMost("elections", elections, 0, "")
	return a.filesClosed(leader, files)
}

// fullLeader is a leader that has no free descriptors for clients while it is attacked.
type fullLeader struct {
	*abuser
	nodes *group
	node  *node
	v     *victim // the leader as a server of clients
	files int     // open files without clients
}

// compareOthers compares clients that are connected before an attack with those without it. Each attack ends when the leader
// has as few open files as before.
func (l *fullLeader) compareOthers() error {
	err := l.beside(l.v, abuseP99, func(stop <-chan struct{}) error {
		if err := errors.Join(l.v.awaitActive(loadConns), occupy(l.v.addr, stop)); err != nil {
			return err
		}
		now, err := awaitFiles(l.v.pid(), l.files+moreFiles)
		if err == nil && now > l.files+moreFiles {
			err = fmt.Errorf("the leader has %d open files after an attack, %d before", now, l.files)
		}
		return err
	})
	if err != nil {
		return err
	}
	refused, err := l.v.info("stats", "rejected_connections")
	if err != nil {
		return err
	}
	l.atLeast("connections refused meanwhile", float64(refused), fewConns-fewFilesLimit, "")
	return nil
}

// observe occupies the descriptors while one client stays connected, and measures the leader meanwhile.
func (l *fullLeader) observe() error {
	calm, err := cpuShare(l.v.pid(), fewObserved)
	if err != nil {
		return err
	}
	kept, err := l.v.login()
	if err != nil {
		return err
	}
	defer func() { _ = kept.Close() }()
	if _, err := kept.ask("PING"); err != nil { // a client without a command can be displaced
		return err
	}
	peers, err := l.nodes.raftConnections()
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	attacked := make(chan error, 1)
	go func() { attacked <- occupy(l.v.addr, stop) }()
	err = awaitRefusal(l.v.addr)
	if err == nil {
		err = errors.Join(l.descriptors(kept), l.processor(calm), l.peers(peers), restartFollower(l.nodes, l.node))
	}
	_, askErr := kept.ask("PING")
	close(stop)
	return errors.Join(err, askErr, <-attacked)
}

// descriptors shows those that clients have, according to one of them, and those that the leader has open.
func (l *fullLeader) descriptors(kept *asker) error {
	text, err := kept.ask("INFO clients")
	if err != nil {
		return err
	}
	clients, err := infoInt(text, "connected_clients")
	if err != nil {
		return err
	}
	n, err := openFiles(l.v.pid())
	if err != nil {
		return err
	}
	l.atLeast("descriptors reserved beside those of clients", float64(fewFilesLimit-clients), fewReserved, "")
	l.atLeast("free descriptors of the leader", float64(fewFilesLimit-n), fewFree, "")
	return nil
}

// processor compares the processor time of the leader while it refuses connections with that before.
func (l *fullLeader) processor(calm float64) error {
	share, err := cpuShare(l.v.pid(), fewObserved)
	if err != nil {
		return err
	}
	l.atMost("processor time of the leader, more than before", 100*(share-calm), fewCPU, "%")
	return nil
}

// peers counts the connections between nodes that are no longer open.
func (l *fullLeader) peers(before map[socket]bool) error {
	now, err := l.nodes.raftConnections()
	if err != nil {
		return err
	}
	lost := 0
	for c := range before {
		if !now[c] {
			lost++
		}
	}
	l.atLeast("connections between nodes", float64(len(before)), groupSize-1, "")
	l.atMost("connections between nodes that were lost", float64(lost), 0, "")
	return nil
}

// restartFollower kills and starts a follower, and waits until it has joined the leader.
func restartFollower(nodes *group, leader *node) error {
	follower := nodes.other(leader)
	if err := errors.Join(follower.kill(), follower.start()); err != nil {
		return err
	}
	return follower.awaitLink()
}

// occupy keeps fewConns connections open, or tries to, until stop is closed.
func occupy(addr string, stop <-chan struct{}) error {
	return together(fewConns, func(i int) error { return insist(addr, i, stop) })
}

// insist keeps a connection open that has sent a command. If the server refuses it, it tries again every second.
func insist(addr string, i int, stop <-chan struct{}) error {
	for {
		c, err := dialFrom(i%churnSources, addr)
		if err == nil {
			_ = exchange(c, "PING\r\n", "+PONG\r\n") // fails if the connection is refused
			_ = c.SetReadDeadline(time.Time{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = c.Read(make([]byte, 1))
			}()
			select {
			case <-ended:
			case <-stop:
			}
			_ = c.Close()
			<-ended
		}
		if !pause(stop, time.Second) { // the interval of a client that reconnects
			return nil
		}
	}
}

// awaitRefusal waits until a server refuses a connection.
func awaitRefusal(addr string) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(replyPatience); time.Now().Before(end); <-ticker.C {
		if _, err := command(addr, "PING"); err != nil && strings.HasPrefix("-"+err.Error(), strings.TrimSpace(tooManyClients)) {
			return nil
		}
	}
	return errors.New("the server does not refuse connections")
}

// filesClosed compares the open files of a node with those before.
func (a *abuser) filesClosed(n *node, before int) error {
	now, err := awaitFiles(n.pid(), before+moreFiles)
	if err != nil {
		return err
	}
	a.atMost("afterwards: more open files", float64(now-before), moreFiles, "")
	return nil
}

// awaitFiles waits until a process has at most the given number of open files, at most growthWithin, and returns their number.
func awaitFiles(pid, most int) (now int, err error) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(growthWithin); ; <-ticker.C {
		now, err = openFiles(pid)
		if err != nil || now <= most || time.Now().After(end) {
			return now, err
		}
	}
}

// cpuShare returns the share of a core that a process uses.
func cpuShare(pid int, lasting time.Duration) (float64, error) {
	before, err := cpuSeconds(pid)
	if err != nil {
		return 0, err
	}
	time.Sleep(lasting) // the duration of the measurement
	after, err := cpuSeconds(pid)
	return (after - before) / lasting.Seconds(), err
}
