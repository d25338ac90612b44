// Connections to QUOIN_TEST_HOST go to the port QUOIN_TEST_PORT of this machine. The name in TLS and in
// the Host header stays.
const tls = require('tls');

const { connect } = tls;

tls.connect = function (options, ...rest) {
  if (options && options.host === process.env.QUOIN_TEST_HOST) {
    options = { ...options, host: '127.0.0.1', port: Number(process.env.QUOIN_TEST_PORT) };
  }
  return connect.call(this, options, ...rest);
};
