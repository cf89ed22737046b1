package protocol

// cycle detects whether a sequence of continue tokens repeats. It uses Brent's algorithm, which
// keeps one token in memory. The zero cycle is ready to use.
type cycle struct {
	mark        string
	steps, laps int
}

// closes reports whether the token occurred before.
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
