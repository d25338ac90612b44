package deployment

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxConcurrentFetches limits how many remotes are fetched at the same time. A remote that
	// hangs occupies one of these slots, never a worker of the controller.
	maxConcurrentFetches = 16
	// maxAccountFetches is the limit for the remotes of one account.
	maxAccountFetches = 4
)

// fetchQueue decides which of the waiting fetches start: within the limits, in turns between
// the accounts, and in the order of their arrival within one. The namespace identifies the
// account.
type fetchQueue struct {
	running  int
	accounts map[string]*accountFetches
	// order has the namespaces with waiting fetches, the one that was served last at its end.
	order []string
}

// accountFetches are the fetches of one account.
type accountFetches struct {
	running int
	waiting []client.ObjectKey
}

func newFetchQueue() *fetchQueue {
	return &fetchQueue{accounts: map[string]*accountFetches{}}
}

// add adds a fetch to those that wait.
func (q *fetchQueue) add(key client.ObjectKey) {
	account := q.accounts[key.Namespace]
	if account == nil {
		account = &accountFetches{}
		q.accounts[key.Namespace] = account
	}
	if len(account.waiting) == 0 {
		q.order = append(q.order, key.Namespace)
	}
	account.waiting = append(account.waiting, key)
}

// next occupies a slot for the fetch that starts next. It returns false if none waits that may
// start.
func (q *fetchQueue) next() (client.ObjectKey, bool) {
	if q.running == maxConcurrentFetches {
		return client.ObjectKey{}, false
	}
	for i, namespace := range q.order {
		account := q.accounts[namespace]
		if account.running == maxAccountFetches {
			continue
		}
		key := account.waiting[0]
		account.waiting = account.waiting[1:]
		q.order = slices.Delete(q.order, i, i+1)
		if len(account.waiting) > 0 {
			q.order = append(q.order, namespace)
		}
		account.running++
		q.running++
		return key, true
	}
	return client.ObjectKey{}, false
}

// done releases the slot of a fetch.
func (q *fetchQueue) done(key client.ObjectKey) {
	q.running--
	account := q.accounts[key.Namespace]
	account.running--
	if account.running == 0 && len(account.waiting) == 0 {
		delete(q.accounts, key.Namespace)
	}
}
