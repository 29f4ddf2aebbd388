//! Load for services: requests at a given rate, whatever the answers take.
