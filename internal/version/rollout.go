package version

import (
	"cmp"
	"slices"
	"time"
)

// State of a release in its rollout to the deployments of a channel.
type State int

const (
	// Candidate: the results of the first deployments are not complete.
	Candidate State = iota
	// Accepted: the first deployments run the release, or a user resumed it.
	Accepted
	// Stopped: the release failed on too many of the first deployments.
	Stopped
)

// Attempt is the result of the last rollout of a release on one deployment.
type Attempt struct {
	// Deployment identifies the deployment.
	Deployment string
	// Time of the end of the rollout.
	Time   time.Time
	Failed bool
}

// StopPolicy is when a release that fails is stopped.
type StopPolicy struct {
	// Failures is the number of failures that stop a release; 0 for never.
	Failures int
	// First is the number of deployments whose attempts count.
	First int
}

// Rollout is the state of a release, and what it is based on.
type Rollout struct {
	State State
	// Tried is the number of the first attempts, Failed the number of those that failed.
	Tried, Failed int
}

// Judge returns the state of a release from the attempts, in any order. last is the previous
// result. A release that was accepted or stopped remains so: deployments may be deleted or run
// other versions later. A stopped release is accepted if it is resumed by a user, or if the policy
// stops none.
func Judge(attempts []Attempt, policy StopPolicy, last Rollout, resumed bool) Rollout {
	if last.State == Accepted {
		return last
	}
	now := Rollout{}
	for _, a := range firstAttempts(attempts, policy.First) {
		now.Tried++
		if a.Failed {
			now.Failed++
		}
	}
	if last.State == Stopped {
		now.Tried, now.Failed = max(now.Tried, last.Tried), max(now.Failed, last.Failed)
	}
	switch {
	case resumed, policy.Failures <= 0:
		now.State = Accepted
	case last.State == Stopped, now.Failed >= policy.Failures:
		now.State = Stopped
	case now.Tried >= policy.First:
		now.State = Accepted
	}
	return now
}

// firstAttempts returns the n attempts that ended first.
func firstAttempts(attempts []Attempt, n int) []Attempt {
	sorted := slices.SortedFunc(slices.Values(attempts), func(a, b Attempt) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Deployment, b.Deployment))
	})
	return sorted[:min(len(sorted), n)]
}

// open returns the channel without the releases that are stopped for the deployment.
func (r *resolution) open() Channel {
	open := r.channel
	open.Releases = slices.DeleteFunc(slices.Clone(open.Releases), r.isStopped)
	return open
}

// isStopped reports whether the channel has stopped a release for the deployment. One that the
// deployment runs, or that is being rolled out to it, is not: a stop affects only deployments that
// have not begun.
func (r *resolution) isStopped(release Release) bool {
	return slices.Contains(r.channel.Stopped, release.Version) &&
		(r.Current == nil || r.Current.Pinned() != release.Pinned()) &&
		(r.Rollout == nil || r.Rollout.Pinned() != release.Pinned())
}

// Open returns the newest release of the channel that is not stopped, or false if there is none.
func (c Channel) Open() (Release, bool) {
	return c.newest(func(v Version) bool { return !slices.Contains(c.Stopped, v) })
}

// proven returns the newest release that a deployment of the channel has run.
func (c Channel) proven() (Release, bool) {
	if c.Proven == nil {
		return Release{}, false
	}
	return c.release(*c.Proven)
}
