package informer

// Fact is something that a [Member] tells of itself, for people to read.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Describer is a [Member] that tells more of itself than whether it is ready, such as which
// shards it has. Facts may be called from any goroutine, and must be quick. Package inspect
// shows them.
type Describer interface {
	Member
	Facts() []Fact
}
