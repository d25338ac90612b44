package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
	"github.com/quoin-dev/quoin/test/internal/browser"
)

// replicasValues are those of the chart with two API servers, which trust the certificate authorities of a ConfigMap and have
// their database in a Secret, and with dbt.
const replicasValues = "apiserver.replicas=2,apiserver.database.existingSecret.name=quoin-database,apiserver.extraArgs={--allow-insecure-git}," +
	"apiserver.extraVolumes[0].name=authorities,apiserver.extraVolumes[0].configMap.name=authorities," +
	"apiserver.extraVolumeMounts[0].name=authorities,apiserver.extraVolumeMounts[0].mountPath=/etc/authorities," +
	"apiserver.extraEnv[0].name=SSL_CERT_DIR,apiserver.extraEnv[0].value=/etc/authorities"

// An administrator installs the chart with two API servers. All processes of Quoin are pods; PostgreSQL, Keycloak, the models and
// the Git servers are processes on the machine that is the node.
var _ = Describe("The Helm chart with two API servers and PostgreSQL", Ordered, Label(ownQuoin), func() {
	i := &installation{}

	BeforeAll(func(ctx SpecContext) {
		onlyReal("simulated nodes run no containers")
		browser.Prepare(GinkgoTB())
		i.idp = startKeycloak()
		Expect(world.PushDbt(ctx, dbtImage())).To(Succeed())
		takeOver(ctx)
		i.registry = world.ProxyRegistry()
		i.prepareReplicas(ctx)
		world.MustHelm(ctx, helmInstall(replicasValues, "dbt.image="+dbtImage())...)
		Expect(chartPods(ctx, "apiserver")).To(HaveLen(2))
	}, NodeTimeout(20*time.Minute)) // including the download of Keycloak and of dbt

	Context("with people who sign in at Keycloak", i.signIn)

	Context("with people who ask agents", i.askAgents)

	Context("with a data model from dbt", i.syncDbt)
})

// prepareReplicas creates the namespace of Quoin, and the objects in it that replicasValues name.
func (i *installation) prepareReplicas(ctx context.Context) {
	GinkgoHelper()
	apply(ctx, chartNamespace)
	database := postgrestest.StartServer(GinkgoTB())
	address := servers.ForwardSocket(world, filepath.Join(database.Folder(), ".s.PGSQL.5432"))
	name, _, _ := strings.Cut(strings.TrimPrefix(database.Database(GinkgoTB()), "postgres:///"), "?")
	in := metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "quoin-database"}
	Expect(world.API.Create(ctx, &corev1.Secret{ObjectMeta: in, StringData: map[string]string{
		"url": fmt.Sprintf("postgres://quoin@%s/%s?sslmode=disable", address, name),
	}})).To(Succeed())
	in.Name = "authorities"
	Expect(world.API.Create(ctx, &corev1.ConfigMap{ObjectMeta: in, Data: map[string]string{"keycloak.pem": string(i.idp.CA)}})).To(Succeed())
}
