package environment

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestErrorOfAContainer: the condition has the error with which a container ended, and no secrets.
func TestErrorOfAContainer(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "CUBEJS_DB_PASS", Value: "hunter$$22"}}}}}}
	for name, tc := range map[string]struct{ message, want string }{
		"no log": {"", ""},
		"Node.js": {"/cube/node_modules/x.js:12\n      throw new Error(`CUBEJS_DB_TYPE`);\n      ^\n\nError: The CUBEJS_DB_TYPE environment variable is required\n    at f (/cube/x.js:12:3)\n    at g (/cube/x.js:1:1)\n\nNode.js v22.1.0\n",
			": Error: The CUBEJS_DB_TYPE environment variable is required"},
		"colors and times":   {"\x1b[31m2026-11-22T10:00:00.123Z Fatal error: cannot listen\x1b[0m\n", ": Fatal error: cannot listen"},
		"no error line":      {"starting\ncannot start\n", ": cannot start"},
		"known secret":       {"Error: login with hunter$22 failed", ": Error: login with [HIDDEN] failed"},
		"a URL":              {"Error: connect postgres://cube:swordfish@db/x refused", ": Error: connect postgres://[HIDDEN]@db/x refused"},
		"assigned":           {`Error: {"password": "swordfish"} is not valid`, `: Error: {"password": [HIDDEN]} is not valid`},
		"a key":              {"Error: bad -----BEGIN PRIVATE KEY-----\nMIIswordfish\n-----END PRIVATE KEY-----\n", ": Error: bad [HIDDEN]"},
		"long":               {"Error: " + strings.Repeat("x", 2000), ": Error: " + strings.Repeat("x", maxErrorLength-len("Error: ")-3) + "..."},
		"cut by the kubelet": {"word" + strings.Repeat(" x", maxTerminationMessage/2) + "\nthe end", ": the end"},
		"stack only":         {"    at f (/cube/x.js:12:3)\n", ""},
	} {
		if got := errorOf(tc.message, pod); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestProblemOfACrash: a container that waits to be restarted has the error of its last end.
func TestProblemOfACrash(t *testing.T) {
	crashed := corev1.ContainerStatus{
		Name:                 "cube",
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "Error: no CUBEJS_DB_TYPE\n"}},
	}
	ended := corev1.ContainerStatus{Name: "cube", State: crashed.LastTerminationState}
	for want, status := range map[string]corev1.ContainerStatus{
		"container cube: CrashLoopBackOff, exit code 1: Error: no CUBEJS_DB_TYPE": crashed,
		"container cube: exit code 1: Error: no CUBEJS_DB_TYPE":                   ended,
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{status}}}
		if got := podProblem(pod); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
