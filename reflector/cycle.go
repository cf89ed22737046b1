package reflector

// cycle finds out whether a sequence of continue tokens goes round in a circle,
// with one of them in memory: Brent's algorithm. The zero cycle is ready to use.
type cycle struct {
	mark        string
	steps, laps int
}

// closes reports whether a token has been there before.
func (c *cycle) closes(token string) bool {
	if token == c.mark {
		return true
	}
	if c.steps == c.laps {
		c.mark, c.steps, c.laps = token, 0, 2*c.laps+1
	}
	c.steps++
	return false
}
