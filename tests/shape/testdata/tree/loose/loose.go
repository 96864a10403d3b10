package loose

var Exported int
