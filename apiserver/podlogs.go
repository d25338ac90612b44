package apiserver

import (
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// podLogs is a podlogs.Reader. The client of controller-runtime has no logs.
type podLogs struct{ client kubernetes.Interface }

func (p podLogs) Stream(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	return p.client.CoreV1().Pods(namespace).GetLogs(pod, o).Stream(ctx)
}
