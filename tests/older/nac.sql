-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
--
-- Host: db    Database: nac
-- ------------------------------------------------------
-- Server version	8.0.35

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!50503 SET NAMES utf8mb4 */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;

--
-- Table structure for table `ar_internal_metadata`
--

DROP TABLE IF EXISTS `ar_internal_metadata`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `ar_internal_metadata` (
  `key` varchar(255) NOT NULL,
  `value` varchar(255) DEFAULT NULL,
  `created_at` datetime(6) NOT NULL,
  `updated_at` datetime(6) NOT NULL,
  PRIMARY KEY (`key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3;
/*!40101 SET character_set_client = @saved_cs_client */;

LOCK TABLES `ar_internal_metadata` WRITE;
/*!40000 ALTER TABLE `ar_internal_metadata` DISABLE KEYS */;
INSERT INTO `ar_internal_metadata` VALUES ('environment','production','2021-10-01 09:00:00.000000','2021-10-01 09:00:00.000000');
/*!40000 ALTER TABLE `ar_internal_metadata` ENABLE KEYS */;
UNLOCK TABLES;

DROP TABLE IF EXISTS `audits`;
CREATE TABLE `audits` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `auditable_type` varchar(255) DEFAULT NULL,
  `audited_changes` json DEFAULT NULL,
  `created_at` datetime DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `auditable_index` (`auditable_type`,`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb3;

LOCK TABLES `audits` WRITE;
INSERT INTO `audits` VALUES (1,'Site','{\"name\": \"Leeds\'s (old); INSERT INTO `sites` VALUES (9)\"}','2022-01-01 00:00:00'),(2,'Policy',NULL,NULL);
UNLOCK TABLES;

DROP TABLE IF EXISTS `clients`;
CREATE TABLE `clients` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `shared_secret` varchar(255) NOT NULL,
  `ip_range` varchar(255) NOT NULL,
  `site_id` bigint NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `updated_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `radsec` tinyint(1) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `index_clients_on_site_id` (`site_id`),
  CONSTRAINT `fk_rails_b1d1a1` FOREIGN KEY (`site_id`) REFERENCES `sites` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb3;

LOCK TABLES `clients` WRITE;
/*!40000 ALTER TABLE `clients` DISABLE KEYS */;
INSERT INTO `clients` VALUES (1,'it\'s a \"secret\" \\ of Leeds','10.1.2.3/16',1,'2022-01-01 00:00:00','2022-01-01 00:00:00',0),(2,'radsec','10.1.0.0/16',1,'2022-01-01 00:00:00','2022-01-01 00:00:00',1),(3,'york','192.0.2.7',2,'2022-01-01 00:00:00','2022-01-01 00:00:00',0),(4,'inside Leeds','10.1.7.0/24',3,'2022-01-01 00:00:00','2022-01-01 00:00:00',0);
/*!40000 ALTER TABLE `clients` ENABLE KEYS */;
UNLOCK TABLES;

DROP TABLE IF EXISTS `mac_authentication_bypasses`;
CREATE TABLE `mac_authentication_bypasses` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `address` varchar(255) NOT NULL,
  `name` varchar(255) DEFAULT NULL,
  `description` text,
  `created_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `updated_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `site_id` bigint NOT NULL,
  PRIMARY KEY (`id`),
  KEY `index_mac_authentication_bypasses_on_address` (`address`)
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb3;

LOCK TABLES `mac_authentication_bypasses` WRITE;
INSERT INTO `mac_authentication_bypasses` VALUES (1,'00-1b-78-11-22-33','printer','room 12,\nby the window','2022-01-01 00:00:00','2022-01-01 00:00:00',1),(2,'00-1b-78-11-22-34',NULL,NULL,'2022-01-01 00:00:00','2022-01-01 00:00:00',1),(3,'00-1b-78-11-22-33','the same printer, often moved','','2022-01-01 00:00:00','2022-01-01 00:00:00',2);
UNLOCK TABLES;

DROP TABLE IF EXISTS `policies`;
CREATE TABLE `policies` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `name` varchar(255) NOT NULL,
  `description` text NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `updated_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `fallback` tinyint(1) NOT NULL DEFAULT '0',
  `rule_count` int DEFAULT '0',
  `site_count` bigint DEFAULT '0',
  `action` varchar(255) DEFAULT 'accept',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=8 DEFAULT CHARSET=utf8mb3;

LOCK TABLES `policies` WRITE;
INSERT INTO `policies` VALUES (1,'laptops','our own laptops','2022-01-01 00:00:00','2022-01-01 00:00:00',0,2,3,'accept'),(2,'contractors','not after hours','2022-01-01 00:00:00','2022-01-01 00:00:00',0,1,1,'reject'),(3,'phones','phones','2022-01-01 00:00:00','2022-01-01 00:00:00',0,1,2,NULL),(4,'Fallback policy for Leeds, Wharf 2','Default fallback policy','2022-01-01 00:00:00','2022-01-01 00:00:00',1,0,1,'accept'),(5,'Fallback policy for York','Default fallback policy','2022-01-01 00:00:00','2022-01-01 00:00:00',1,0,1,'accept'),(6,'visitors','visitors','2022-01-01 00:00:00','2022-01-01 00:00:00',0,1,1,'accept');
INSERT INTO `policies` VALUES (7,'Fallback policy for O\'Neill House','Default fallback policy','2022-01-01 00:00:00','2022-01-01 00:00:00',1,0,1,'reject');
UNLOCK TABLES;

DROP TABLE IF EXISTS `responses`;
CREATE TABLE `responses` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `response_attribute` varchar(255) NOT NULL,
  `value` text NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `updated_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `mac_authentication_bypass_id` bigint DEFAULT NULL,
  `policy_id` bigint DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=13 DEFAULT CHARSET=utf8mb3;

LOCK TABLES `responses` WRITE;
INSERT INTO `responses` VALUES (3,'Tunnel-Private-Group-Id','120','2022-01-01 00:00:00','2022-01-01 00:00:00',NULL,1),(1,'Tunnel-Type','VLAN','2022-01-01 00:00:00','2022-01-01 00:00:00',NULL,1),(2,'Tunnel-Medium-Type','IEEE-802','2022-01-01 00:00:00','2022-01-01 00:00:00',NULL,1),(4,'Post-Auth-Type','Reject','2022-01-01 00:00:00','2022-01-01 00:00:00',NULL,2),(5,'Cisco-AVPair','device-traffic-class=voice','2022-01-01 00:00:00','2022-01-01 00:00:00',NULL,3),(6,'Tunnel-Type','VLAN','2022-01-01 00:00:00','2022-01-01 00:00:00',1,NULL),(7,'Tunnel-Medium-Type','IEEE-802','2022-01-01 00:00:00','2022-01-01 00:00:00',1,NULL),(8,'Tunnel-Private-Group-Id','1010','2022-01-01 00:00:00','2022-01-01 00:00:00',1,NULL),(9,'Post-Auth-Type','Reject','2022-01-01 00:00:00','2022-01-01 00:00:00',2,NULL),(10,'Filter-Id','quarantine','2022-01-01 00:00:00','2022-01-01 00:00:00',NULL,4),(11,'Post-Auth-Type','Reject','2022-01-01 00:00:00','2022-01-01 00:00:00',NULL,5),(12,'Filter-Id','visitors','2022-01-01 00:00:00','2022-01-01 00:00:00',NULL,6);
UNLOCK TABLES;

DROP TABLE IF EXISTS `rules`;
CREATE TABLE `rules` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `operator` varchar(255) NOT NULL,
  `value` text NOT NULL,
  `policy_id` bigint NOT NULL,
  `request_attribute` varchar(255) NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `updated_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=6 DEFAULT CHARSET=utf8mb3;

LOCK TABLES `rules` WRITE;
INSERT INTO `rules` VALUES (1,'equals','Ethernet',1,'NAS-Port-Type','2022-01-01 00:00:00','2022-01-01 00:00:00'),(2,'contains','laptop.example.org',1,'TLS-Client-Cert-Subject-Alt-Name-Dns','2022-01-01 00:00:00','2022-01-01 00:00:00'),(3,'contains','O=Contractors',2,'TLS-Client-Cert-Subject','2022-01-01 00:00:00','2022-01-01 00:00:00'),(4,'equals','host/phone.example.org',3,'User-Name','2022-01-01 00:00:00','2022-01-01 00:00:00'),(5,'equals','leeds_wharf_2',6,'Client-Shortname','2022-01-01 00:00:00','2022-01-01 00:00:00');
UNLOCK TABLES;

DROP TABLE IF EXISTS `schema_migrations`;
CREATE TABLE `schema_migrations` (
  `version` varchar(255) NOT NULL,
  PRIMARY KEY (`version`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3;

INSERT INTO `schema_migrations` VALUES ('20200930132008'),('20230309151440');

DROP TABLE IF EXISTS `site_policies`;
CREATE TABLE `site_policies` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `site_id` bigint DEFAULT NULL,
  `policy_id` bigint DEFAULT NULL,
  `priority` int DEFAULT NULL,
  `created_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `updated_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=11 DEFAULT CHARSET=utf8mb3;

LOCK TABLES `site_policies` WRITE;
INSERT INTO `site_policies` VALUES (4,1,1,1,'2022-01-01 00:00:00','2022-01-01 00:00:00'),(1,1,4,NULL,'2022-01-01 00:00:00','2022-01-01 00:00:00'),(2,1,3,1,'2022-01-01 00:00:00','2022-01-01 00:00:00'),(3,1,6,7,'2022-01-01 00:00:00','2022-01-01 00:00:00'),(5,1,2,NULL,'2022-01-01 00:00:00','2022-01-01 00:00:00'),(6,2,5,99,'2022-01-01 00:00:00','2022-01-01 00:00:00'),(7,2,1,0,'2022-01-01 00:00:00','2022-01-01 00:00:00'),(8,3,7,NULL,'2022-01-01 00:00:00','2022-01-01 00:00:00'),(9,3,3,-1,'2022-01-01 00:00:00','2022-01-01 00:00:00'),(10,3,1,2,'2022-01-01 00:00:00','2022-01-01 00:00:00');
UNLOCK TABLES;

DROP TABLE IF EXISTS `sites`;
CREATE TABLE `sites` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `name` varchar(255) NOT NULL,
  `created_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `updated_at` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
  `tag` varchar(255) NOT NULL,
  `policy_count` bigint DEFAULT '0',
  PRIMARY KEY (`id`),
  KEY `index_sites_on_name` (`name`)
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb3;

LOCK TABLES `sites` WRITE;
INSERT INTO `sites` VALUES (1,'Leeds, Wharf 2','2022-01-01 00:00:00','2022-01-01 00:00:00','leeds_wharf_2',5),(2,'York','2022-01-01 00:00:00','2022-01-01 00:00:00','york',2),(3,'O\'Neill House','2022-01-01 00:00:00','2022-01-01 00:00:00','o_neill_house',3);
UNLOCK TABLES;

DROP TABLE IF EXISTS `users`;
CREATE TABLE `users` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `email` varchar(255) DEFAULT NULL,
  `editor` tinyint(1) DEFAULT '0',
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb3;
/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;

-- Dump completed on 2026-11-30 18:42:00
