package eventqueuetest_test

import "testing"

func TestExpectationsOfTheExample(t *testing.T) { expectations(t) }
