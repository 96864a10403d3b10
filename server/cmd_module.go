package server

// cellModule is the module that clients look for before they send CL.THROTTLE, and its version.
const (
	cellModule  = "redis-cell"
	cellVersion = 1
)

// cmdModuleList names one module, although none is loaded: its command is there, with the same
// reply.
func cmdModuleList(c *client, _ [][]byte) error {
	c.replyModules()
	return nil
}

func (c *client) replyModules() {
	c.out.Array(1)
	c.out.Map(4)
	c.out.Text("name")
	c.out.Text(cellModule)
	c.out.Text("ver")
	c.out.Int(cellVersion)
	c.out.Text("path")
	c.out.Text("")
	c.out.Text("args")
	c.out.Array(0)
}
