//! What both ends of a connection are set to: a certificate made on the spot, and windows that limit nothing.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use clap::ValueEnum;
use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, MtuDiscoveryConfig, ServerConfig, TokioRuntime, TransportConfig,
    VarInt,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

use crate::Result;

/// Bytes that may be under way: several times what the fastest and the longest measured way hold.
const WINDOW_BYTES: u32 = 64 << 20;
/// Bytes of the kernel's buffers, as of Weft's sockets and of those of the UDP rivals.
const BUFFER_BYTES: usize = 8 << 20;
/// Bytes of headers of IPv4 and UDP.
const UNDERLAY_BYTES: u16 = 28;
/// Bytes of the largest of the ten packets that quinn gives the kernel at a time, which are a datagram of 65,507 bytes
/// to it. With larger ones every such send fails, quinn takes them for lost, and goes on with 1,200 bytes.
const TOGETHER_BYTES_MAX: u16 = 6_550;

/// A congestion controller of quinn's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Controller {
    /// By loss.
    Cubic,
    /// By a model of the path.
    Bbr,
}

/// Bytes of a packet that fills the wire, or as much as quinn can send.
fn packet_bytes(mtu: u16) -> u16 {
    mtu.saturating_sub(UNDERLAY_BYTES).clamp(1_200, TOGETHER_BYTES_MAX)
}

/// An end at `address`, which takes packets of the size that the wire carries; by itself quinn takes none above 1472 bytes.
pub(crate) fn endpoint(address: SocketAddr, server: Option<ServerConfig>, mtu: u16) -> Result<Endpoint> {
    let mut config = EndpointConfig::default();
    config.max_udp_payload_size(packet_bytes(mtu))?;
    let socket = UdpSocket::bind(address)?;
    enlarge_buffers(&socket)?;
    Ok(Endpoint::new(config, server, socket, Arc::new(TokioRuntime))?)
}

/// Gives the socket the kernel's buffers that the other contenders have, past the system's limit where that is permitted.
fn enlarge_buffers(socket: &UdpSocket) -> Result<()> {
    let bytes = libc::c_int::try_from(BUFFER_BYTES)?;
    let len = libc::socklen_t::try_from(size_of_val(&bytes))?;
    let set = |option| {
        let (fd, value) = (socket.as_raw_fd(), (&raw const bytes).cast());
        // SAFETY: the value is an integer as these options want it, and lives through the call.
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, value, len) == 0 }
    };
    for [force, plain] in
        [[libc::SO_SNDBUFFORCE, libc::SO_SNDBUF], [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF]]
    {
        if !set(force) && !set(plain) {
            return Err(std::io::Error::last_os_error().into());
        }
    }
    Ok(())
}

fn transport(controller: Controller, mtu: u16) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let packet_bytes = packet_bytes(mtu);
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(packet_bytes);
    transport
        .initial_mtu(packet_bytes)
        .mtu_discovery_config(Some(discovery))
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(u64::from(WINDOW_BYTES))
        .datagram_receive_buffer_size(Some(WINDOW_BYTES as usize));
    match controller {
        Controller::Cubic => transport.congestion_controller_factory(Arc::new(CubicConfig::default())),
        Controller::Bbr => transport.congestion_controller_factory(Arc::new(BbrConfig::default())),
    };
    transport
}

/// A server with a certificate that it signs itself.
pub(crate) fn server(mtu: u16) -> Result<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["weft".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut config = ServerConfig::with_single_cert(vec![made.cert.into()], key.into())?;
    config.transport_config(Arc::new(transport(Controller::Cubic, mtu)));
    Ok(config)
}

/// A client that takes any certificate.
pub(crate) fn client(controller: Controller, mtu: u16) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let mut crypto = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    crypto.enable_early_data = true;
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    config.transport_config(Arc::new(transport(controller, mtu)));
    Ok(config)
}

/// Trusts every server: who answers is no question between two namespaces of one machine.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
