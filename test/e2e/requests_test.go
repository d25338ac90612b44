package e2e_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// address returns the URL of the API Service of a deployment's production environment. kube-proxy also routes its cluster IP
// on this machine.
func (t *tenant) address(ctx context.Context, deployment string) string {
	GinkgoHelper()
	services := &corev1.ServiceList{}
	Expect(t.all(ctx, services, client.MatchingLabels{
		v1alpha1.LabelEnvironment: v1alpha1.ProductionName(deployment), "app.kubernetes.io/component": "api",
	})).To(Succeed())
	Expect(services.Items).To(HaveLen(1))
	for _, port := range services.Items[0].Spec.Ports {
		if port.Name == "http" {
			return fmt.Sprintf("http://%s:%d", services.Items[0].Spec.ClusterIP, port.Port)
		}
	}
	Expect(services.Items[0].Spec.Ports).To(BeEmpty(), "no port is named http")
	return ""
}

// versionHeader is the response header with the version of the server, of both the sample and the real one.
const versionHeader = "X-Data-Plane-Version"
