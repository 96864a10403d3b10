package driver;

import java.io.FileInputStream;
import java.io.InputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Trusts the certificates of one CA. */
final class Trust {
    private Trust() {}

    /** Returns a context that accepts servers with a certificate of the CA in a PEM file. */
    static SSLContext context(String caFile) throws Exception {
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, factory(caFile).getTrustManagers(), null);
        return context;
    }

    static TrustManagerFactory factory(String caFile) throws Exception {
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store(caFile));
        return factory;
    }

    private static KeyStore store(String caFile) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream in = new FileInputStream(caFile)) {
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        return store;
    }
}
