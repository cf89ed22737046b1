package persist

const childEnv = "KUBEREFLECTOR_PERSIST_CHILD"

func live(path string) int { return 0 }
