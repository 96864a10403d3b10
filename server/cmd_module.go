package server

import "github.com/throttledhq/throttled/resp"

// cellModule and cellVersion are the name and the version of the only module that the server lists. Some clients send
// CL.THROTTLE only to a server that has this module.
const (
	cellModule  = "redis-cell"
	cellVersion = 1
)

// cmdModuleList lists the module redis-cell although no module is loaded: CL.THROTTLE, the command of redis-cell, is
// built in and has the same reply.
func cmdModuleList(c *client, _ [][]byte) error {
	replyModules(&c.out)
	return nil
}

func replyModules(out *resp.Reply) {
	out.Array(1)
	out.Map(4)
	out.Text("name")
	out.Text(cellModule)
	out.Text("ver")
	out.Int(cellVersion)
	out.Text("path")
	out.Text("")
	out.Text("args")
	out.Array(0)
}
