// Package klogging lets the lines of klog and slog go to a zap logger.
package klogging
