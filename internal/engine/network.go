package engine

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func (in Inputs) service(name, component string) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: in.objectMeta(name, component),
		Spec:       corev1.ServiceSpec{Selector: selectorLabels(in.Environment, component)},
	}
}

// servicePort returns a port with the same number and name on service and pod.
func servicePort(name string, port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: port, TargetPort: intstr.FromString(name)}
}

// disruptionBudget permits the eviction of one API pod at a time. It is not used for a single pod,
// for which a budget would either block the drain of its node or have no effect. Pods that are not
// ready serve no requests and may always be evicted: those of an environment that does not start, or
// whose model does not compile, would block the drain of their nodes until a user corrects it.
func (in Inputs) disruptionBudget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: in.objectMeta(APIName(in.Environment), ComponentAPI),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable:             ptr.To(intstr.FromInt32(1)),
			Selector:                   &metav1.LabelSelector{MatchLabels: selectorLabels(in.Environment, ComponentAPI)},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}

// apiPolicy permits connections to the API pods from the environment's own pods and the gateway.
// Egress is not restricted, because a warehouse can be anywhere.
func (in Inputs) apiPolicy() *networkingv1.NetworkPolicy {
	from := in.ownPods()
	if in.Options.GatewayNamespace != "" {
		from = append(from, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{corev1.LabelMetadataName: in.Options.GatewayNamespace},
		}})
	}
	return in.policy(APIName(in.Environment), ComponentAPI, from, PortHTTP, PortSQL)
}

// refreshPolicy denies all connections to the refresh worker, which would answer queries like any
// other server.
func (in Inputs) refreshPolicy() *networkingv1.NetworkPolicy {
	return in.policy(RefreshName(in.Environment), ComponentRefresh, nil)
}

// routerPolicy and workerPolicy are the store's only protection, because it has no authentication.
func (in Inputs) routerPolicy() *networkingv1.NetworkPolicy {
	return in.policy(StoreRouterName(in.Environment), ComponentStoreRouter, in.ownPods(), portStoreHTTP, portStoreStatus, portStoreMeta)
}

func (in Inputs) workerPolicy() *networkingv1.NetworkPolicy {
	return in.policy(StoreWorkerName(in.Environment), ComponentStoreWorker, in.ownPods(), portStoreWorker)
}

func (in Inputs) ownPods() []networkingv1.NetworkPolicyPeer {
	return []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{labelInstance: in.Environment},
	}}}
}

// policy permits connections to the ports of a component from the given peers only.
func (in Inputs) policy(name, component string, from []networkingv1.NetworkPolicyPeer, ports ...int32) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: in.objectMeta(name, component),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selectorLabels(in.Environment, component)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
	if len(from) == 0 {
		return p
	}
	rule := networkingv1.NetworkPolicyIngressRule{From: from}
	for _, port := range ports {
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Port: ptr.To(intstr.FromInt32(port))})
	}
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{rule}
	return p
}
