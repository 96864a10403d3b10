package server

// cellModule and cellVersion are the name and the version of the module that some clients require before they send
// CL.THROTTLE.
const (
	cellModule  = "redis-cell"
	cellVersion = 1
)

// cmdModuleList lists redis-cell although no module is loaded, since its command is supported with the
// same reply.
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
