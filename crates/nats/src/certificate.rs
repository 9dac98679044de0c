//! TLS configuration: certificates are verified for the configured host name, although the connection is made
//! to an address.

use std::sync::Arc;

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};

use crate::NatsError;

/// Verifies as usual, but for a fixed name.
#[derive(Debug)]
struct Named {
    name: ServerName<'static>,
    usual: Arc<WebPkiServerVerifier>,
}

/// The TLS configuration for `host`, with these authorities in PEM, or Mozilla's.
pub(crate) fn config(host: &str, authorities: Option<&str>) -> Result<ClientConfig, NatsError> {
    let invalid = |what: &str, why: &dyn std::fmt::Display| NatsError::Invalid(format!("{what}: {why}"));
    let mut roots = RootCertStore::empty();
    match authorities {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let certificate = certificate.map_err(|error| invalid("ca is not PEM", &error))?;
                roots.add(certificate).map_err(|error| invalid("ca has no usable certificate", &error))?;
            }
            if roots.is_empty() {
                return Err(NatsError::Invalid("ca has no certificate: write one in PEM".to_owned()));
            }
        }
    }
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| invalid("a certificate cannot be checked for this host", &error))?;
    let provider = Arc::new(ring::default_provider());
    let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| invalid("ca", &error))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("TLS", &error))?
        .dangerous() // whoever checks otherwise than usual has to say so: only the name is another one
        .with_custom_certificate_verifier(Arc::new(Named { name, usual }))
        .with_no_client_auth();
    Ok(config)
}

impl ServerCertVerifier for Named {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _address: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.usual.verify_server_cert(certificate, between, &self.name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_certificates_in_pem() {
        assert!(config("nats.example.com", None).is_ok() && config("10.0.0.1", None).is_ok());
        for bad in ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(config("nats.example.com", Some(bad)).is_err(), "{bad}");
        }
        assert!(config("not a name", None).is_err());
    }
}
