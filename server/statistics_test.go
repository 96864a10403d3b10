package server

import (
	"testing"
	"testing/synctest"

	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/server/statistics"
)

// statisticsOf returns the statistics of a command, or zero statistics if the list does not have it.
func statisticsOf(v statistics.Server, name string) statistics.Command {
	for _, cmd := range v.Commands {
		if cmd.Name == name {
			return cmd
		}
	}
	return statistics.Command{}
}

// TestStatistics checks the statistics after commands of one client, and the connections that were refused.
func TestStatistics(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options.Options) { o.MaxClients, o.MaxMemory, o.RequirePass = 1, 64<<20, "secret" })
	p := s.dial()
	p.fails("WRONGPASS", "AUTH", "wrong")
	p.do("+OK\r\n", "AUTH", "secret")
	for range 3 {
		p.ask("CL.THROTTLE", "k", "1", "1", "60")
	}
	p.fails("ERR", "CL.THROTTLE", "k", "x", "1", "60")
	p.fails("ERR", "CL.THROTTLE", "k")
	p.ask("CL.WINDOW", "w", "1", "60")
	p.ask("PING")
	second := s.dial()
	second.expect(failure(errMaxClients))
	second.closed()

	v := s.Statistics()
	if c := statisticsOf(v, "cl.throttle"); c.Calls != 4 || c.Admitted != 2 || c.Limited != 1 || c.Failed != 1 || c.Rejected != 1 || !c.Limiter || c.Rules || c.Times.Total() != 3 {
		t.Errorf("cl.throttle: got %+v, want 2 admitted, 1 limited, 1 failed and 1 rejected", c)
	}
	if c := statisticsOf(v, "cl.window"); c.Admitted != 1 || c.Limited != 0 {
		t.Errorf("cl.window: got %+v, want 1 admitted", c)
	}
	if c := statisticsOf(v, "ping"); c.Calls != 1 || c.Limiter {
		t.Errorf("ping: got %+v, want 1 call", c)
	}
	if c := statisticsOf(v, "cl.all"); c.Name != "" {
		t.Errorf("got %+v for a command that was not called, want none", c)
	}
	if v.Clients != 1 || v.MaxClients != 1 || v.Rejected != 1 || v.Connections != 2 || v.AuthFailed != 1 || v.Errors["WRONGPASS"] != 1 {
		t.Errorf("got %+v, want 1 of 1 clients, 2 connections of which 1 was refused, and 1 wrong password", v)
	}
	if v.Usage.Keys != 2 || v.MaxMemory != 64<<20 || v.ClientMemory == 0 || v.ClientMemoryMax == 0 || v.ReadBytes == 0 || v.WrittenBytes == 0 || v.Loading || v.SnapshotsEnabled {
		t.Errorf("got %+v, want 2 keys and memory within limits", v)
	}
	p.do("+OK\r\n", "CONFIG", "RESETSTAT")
	if c := statisticsOf(s.Statistics(), "cl.throttle"); c.Admitted+c.Limited != 0 {
		t.Errorf("after CONFIG RESETSTAT: got %+v", c)
	}
}

// TestStatisticsOfForwarding checks that the node that decides counts the decision, and the other one the forwarded call.
func TestStatisticsOfForwarding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startFailureLab(t)
		a, b := l.nodes["a"], l.nodes["b"]
		p := a.at(a.clients)
		p.ask(words("CL.CHECK d a x")...) // no leader
		p.ask(words("CL.THROTTLE k 1 1 60")...)
		l.lead("b")
		p.ask(words("CL.CHECK d a x")...)
		p.ask(words("CL.THROTTLE k 1 1 60")...)
		va, vb := a.Statistics(), b.Statistics()
		if c := statisticsOf(va, "cl.throttle"); c.Admitted+c.Limited != 0 {
			t.Errorf("node a: got %+v, want no decision", c)
		}
		if c := statisticsOf(vb, "cl.throttle"); c.Admitted != 1 {
			t.Errorf("node b: got %+v, want 1 decision", c)
		}
		if c := statisticsOf(va, "cl.check"); c.Admitted != 1 || !c.Rules {
			t.Errorf("node a: got %+v, want 1 decision by on_failure", c)
		}
		if va.Forward.Answered != 2 || va.Forward.Failed != 2 || va.Forward.Uncertain != 0 || va.Rules.FailOpen != 1 {
			t.Errorf("node a: got %+v and %+v, want 2 answered, 2 failed, and 1 admitted by on_failure", va.Forward, va.Rules)
		}
		if vb.Peers == 0 || vb.Clients != 0 {
			t.Errorf("node b: got %d streams of nodes and %d clients, want only streams of nodes", vb.Peers, vb.Clients)
		}
	})
}
