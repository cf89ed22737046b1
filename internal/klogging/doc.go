// Package klogging passes log lines between klog, slog and zap.
package klogging
