// Package rulestest holds the alerts and the dashboard of contrib/prometheus to what they
// are for: the rules can be loaded, fire when they should and at no other time, and name
// metrics that there are. It is a module of its own because it needs Prometheus itself.
package rulestest
