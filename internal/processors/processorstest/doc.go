// Package processorstest has what tests of threads that others preempt need.
package processorstest
