//! EAP (RFC 3748): the server's and the supplicant's side of one conversation, without I/O.
