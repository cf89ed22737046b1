package informer

// Fact is a detail that a [Member] shows about itself, for people to read.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Describer is a [Member] that shows more about itself than its readiness, such as its shards.
// Facts may be called from any goroutine, and must be quick. Package inspect shows the facts.
type Describer interface {
	Member
	Facts() []Fact
}
